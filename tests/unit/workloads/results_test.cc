#include "workloads/results.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace stalltrace::workloads {
namespace {

ProbeResult two_requests() {
  return {.path = "/mnt/f",
          .fs_type = "ext4",
          .source = "/dev/loop0",
          .block_bytes = 4096,
          .interval_ns = 1'000'000'000,
          .tid = 7,
          .requests = {{.start_ns = 5'000'000'000,
                        .submitted_ns = 5'000'030'000,
                        .completed_ns = 5'000'430'000,
                        .result = 4096},
                       {.start_ns = 6'000'000'000,
                        .submitted_ns = 7'900'000'000,
                        .completed_ns = 7'900'400'000,
                        .result = 4096}},
          .error = ""};
}

TEST(ProbeText, IsLikeIopings) {
  EXPECT_EQ(probe_text(two_requests()),
            "4 KiB >>> /mnt/f (ext4 /dev/loop0): request=1 time=430 us submit=30.0 us "
            "complete=400 us\n"
            "4 KiB >>> /mnt/f (ext4 /dev/loop0): request=2 time=1.90 s submit=1.90 s "
            "complete=400 us\n"
            "\n"
            "--- /mnt/f (ext4 /dev/loop0) probe statistics ---\n"
            // 1900.83 ms for two; 2900.4 ms from the first to the last moment
            "2 requests completed in 1.90 s, 8 KiB written, 1.1 iops\n"
            "generated 2 requests in 2.90 s, every 1.00 s\n"
            "min/avg/max/mdev = 430 us / 950 ms / 1.90 s / 950 ms\n"
            "submit            30.0 us / 950 ms / 1.90 s / 950 ms\n"
            "complete          400 us / 400 us / 400 us / 0 s\n");
}

TEST(ProbeText, TellsWhatFailed) {
  ProbeResult probe = two_requests();
  probe.requests[1].result = -EIO;
  std::string text = probe_text(probe);
  EXPECT_NE(text.find("complete=400 us failed: Input/output error\n"), std::string::npos) << text;
  EXPECT_NE(text.find("1 requests completed in 430 us"), std::string::npos) << text;
  probe.requests.clear();
  EXPECT_NE(probe_text(probe).find("no request completed"), std::string::npos);
}

TEST(ProbeJson, CountsFromTheBase) {
  nlohmann::json json = probe_json(two_requests(), 4'999'000'000);
  ASSERT_EQ(json.at("requests").size(), 2U);
  EXPECT_DOUBLE_EQ(json["requests"][0]["at_us"], 1000.0);
  EXPECT_DOUBLE_EQ(json["requests"][0]["us"], 430.0);
  EXPECT_DOUBLE_EQ(json["requests"][0]["submit_us"], 30.0);
  EXPECT_DOUBLE_EQ(json["requests"][0]["complete_us"], 400.0);
  EXPECT_DOUBLE_EQ(json["requests"][1]["at_us"], 1'001'000.0);
  EXPECT_EQ(json["latency_us"]["count"], 2);
  EXPECT_DOUBLE_EQ(json["latency_us"]["max"], 1'900'400.0);
  EXPECT_DOUBLE_EQ(json["submit_us"]["max"], 1'900'000.0);
  EXPECT_FALSE(json["requests"][0].contains("error"));
}

TEST(ProbeJson, ABaseAfterTheFirstRequestIsNegative) {
  nlohmann::json json = probe_json(two_requests(), 5'500'000'000);
  EXPECT_DOUBLE_EQ(json["requests"][0]["at_us"], -500'000.0);
}

TEST(ProbeJson, AFailedRequestIsInNoDistribution) {
  ProbeResult probe = two_requests();
  probe.requests[1].result = -EIO;
  nlohmann::json json = probe_json(probe, 0);
  EXPECT_EQ(json["latency_us"]["count"], 1);
  EXPECT_EQ(json["requests"][1]["error"], "Input/output error");
}

}  // namespace
}  // namespace stalltrace::workloads
