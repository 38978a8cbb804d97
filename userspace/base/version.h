#pragma once

#ifndef STALLTRACE_VERSION
#define STALLTRACE_VERSION "0.1.0"
#endif
