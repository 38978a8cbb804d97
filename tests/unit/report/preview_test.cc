// Prints the samples for a person to look at: ST_REPORT_PREVIEW=80 (or 200, or 100,color,utf8).
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/unit/report/samples.h"
#include "userspace/report/json.h"
#include "userspace/report/text.h"

namespace stalltrace::report {
namespace {

TEST(Preview, PrintsTheSamplesWhenAsked) {
  const char* wish = std::getenv("ST_REPORT_PREVIEW");
  if (wish == nullptr) return;
  std::string text = wish;
  TextStyle style;
  style.width = std::strtoul(text.c_str(), nullptr, 10);
  style.color = text.find("color") != std::string::npos;
  style.utf8 = text.find("utf8") != std::string::npos;
  for (const Report& report :
       {samples::mission_report(), samples::full_report(), samples::quiet_report(),
        samples::loss_report(), samples::hostile_report()}) {
    std::cout << std::string(style.width, '=') << "\n" << to_text(report, style);
  }
  if (text.find("json") != std::string::npos) std::cout << json_text(samples::full_report());
}

}  // namespace
}  // namespace stalltrace::report
