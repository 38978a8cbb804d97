#include "workloads/ops_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

OpRecord record(OpKind kind, uint64_t id, uint64_t start_ns, uint64_t duration_ns,
                int64_t result = 0) {
  return {.id = id,
          .start_ns = start_ns,
          .end_ns = start_ns + duration_ns,
          .reap_from_ns = start_ns + duration_ns / 2,
          .result = result,
          .kind = kind};
}

std::string log_text(const std::vector<const OpRecorder*>& recorders) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::tmpfile(), &std::fclose);
  write_ops_log(fileno(file.get()), "log", recorders);
  std::rewind(file.get());
  std::string text;
  for (int c = std::fgetc(file.get()); c != EOF; c = std::fgetc(file.get())) {
    text += static_cast<char>(c);
  }
  return text;
}

TEST(OpsLog, CsvIsOrderedByStartAcrossThreads) {
  OpRecorder one(true, 0);
  one.set_tid(11);
  one.add(record(OpKind::kIoSubmit, 1, 3000, 10, 1));
  one.add(record(OpKind::kAio, 1, 3000, 500, 65536));
  OpRecorder two(true, 0);
  two.set_tid(12);
  two.add(record(OpKind::kFdatasync, 2, 1000, 100, -5));
  EXPECT_EQ(log_text({&one, &two}),
            "id,kind,tid,start_ns,end_ns,result,reap_from_ns\n"
            "2,fdatasync,12,1000,1100,-5,1050\n"
            "1,io_submit,11,3000,3010,1,3005\n"
            "1,aio,11,3000,3500,65536,3250\n");
}

TEST(OpsLog, EveryKindHasItsName) {
  EXPECT_EQ(op_kind_name(OpKind::kIoSubmit), "io_submit");
  EXPECT_EQ(op_kind_name(OpKind::kIoUringEnter), "io_uring_enter");
  EXPECT_EQ(op_kind_name(OpKind::kWrite), "write");
  EXPECT_EQ(op_kind_name(OpKind::kRead), "read");
  EXPECT_EQ(op_kind_name(OpKind::kFsync), "fsync");
  EXPECT_EQ(op_kind_name(OpKind::kFdatasync), "fdatasync");
  EXPECT_EQ(op_kind_name(OpKind::kAio), "aio");
  EXPECT_EQ(op_kind_name(OpKind::kUring), "uring");
  EXPECT_EQ(op_kind_name(OpKind::kProbeSubmit), "probe_submit");
  EXPECT_EQ(op_kind_name(OpKind::kProbeRequest), "probe_request");
  EXPECT_EQ(op_kind_name(OpKind::kAck), "ack");
}

TEST(OpsLog, TheFloorKeepsTheProbeAndCountsAll) {
  OpRecorder recorder(true, 1000);
  recorder.add(record(OpKind::kAio, 1, 0, 999));
  recorder.add(record(OpKind::kAio, 2, 0, 1000));
  recorder.add(record(OpKind::kProbeRequest, 3, 0, 1));
  ASSERT_EQ(recorder.records().size(), 2U);
  EXPECT_EQ(recorder.records()[0].id, 2U);
  EXPECT_EQ(recorder.records()[1].id, 3U);
  EXPECT_EQ(recorder.latency(OpKind::kAio).count(), 2U);
  EXPECT_EQ(recorder.dropped(), 0U);
}

TEST(OpsLog, WhatDoesNotFitIsCounted) {
  OpRecorder recorder(true, 0);
  for (size_t i = 0; i < OpRecorder::kLogCapacity + 3; ++i) {
    recorder.add(record(OpKind::kWrite, i, i, 1));
  }
  EXPECT_EQ(recorder.records().size(), OpRecorder::kLogCapacity);
  EXPECT_EQ(recorder.dropped(), 3U);
  EXPECT_EQ(recorder.latency(OpKind::kWrite).count(), OpRecorder::kLogCapacity + 3);
}

TEST(OpsLog, WithoutALogOnlyLatenciesAreKept) {
  OpRecorder recorder(false, 0);
  recorder.add(record(OpKind::kWrite, 1, 0, 5));
  EXPECT_TRUE(recorder.records().empty());
  EXPECT_EQ(recorder.dropped(), 0U);
  EXPECT_EQ(recorder.latency(OpKind::kWrite).count(), 1U);
}

TEST(OpsLog, AWriteErrorIsAFailedError) {
  OpRecorder recorder(true, 0);
  std::unique_ptr<FILE, int (*)(FILE*)> full(std::fopen("/dev/full", "w"), &std::fclose);
  ASSERT_NE(full, nullptr);
  try {
    write_ops_log(fileno(full.get()), "/dev/full", {&recorder});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailed);
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos);
  }
}

TEST(OpIds, AreUniquePerWorkerAndKnowTheirSlot) {
  EXPECT_NE(make_op_id(1, 5, 3), make_op_id(2, 5, 3));
  EXPECT_NE(make_op_id(1, 5, 3), make_op_id(1, 6, 3));
  EXPECT_EQ(slot_of(make_op_id(4096, (uint64_t{1} << 36U) - 1, 4095)), 4095U);
  EXPECT_EQ(slot_of(make_op_id(1, 77, 0)), 0U);
}

}  // namespace
}  // namespace stalltrace::workloads
