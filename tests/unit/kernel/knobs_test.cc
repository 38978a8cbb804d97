#include "userspace/kernel/knobs.h"

#include <gtest/gtest.h>

#include "userspace/base/error.h"

namespace stalltrace::kernel {
namespace {

std::string refusal_of(const std::string& text) {
  try {
    parse_knob_trial(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Knobs, ATrialIsANameAndItsValues) {
  KnobTrial trial = parse_knob_trial("max_batch_time=0,15000");
  EXPECT_EQ(trial.name, "max_batch_time");
  EXPECT_EQ(trial.values, (std::vector<std::string>{"0", "15000"}));
  EXPECT_EQ(parse_knob_trial("write_cache=write back,write through").values.size(), 2U);
}

// Before anything runs, not once half of the runs were made.
TEST(Knobs, WhatTheKernelWouldRefuseIsRefused) {
  for (const char* text :
       {"max_batch_time", "max_batch_time=", "foo=1", "max_batch_time=-1", "max_batch_time=1,,2",
        "max_batch_time=4294967296", "min_batch_time=99999999999999999999", "commit=0",
        "commit=99999999", "barrier=2", "fast_commit=on", "data=foo", "write_cache=off",
        "wbt_lat_usec=-1", "barrier=0,1,0"}) {
    EXPECT_NE(refusal_of(text).find("--try"), std::string::npos) << text;
  }
  for (const char* text : {"max_batch_time=4294967295", "commit=1,2147483", "data=journal,ordered",
                           "lazytime=0,1", "scheduler=none,bfq", "wbt_lat_usec=0,2000"}) {
    EXPECT_EQ(refusal_of(text), "") << text;
  }
}

}  // namespace
}  // namespace stalltrace::kernel
