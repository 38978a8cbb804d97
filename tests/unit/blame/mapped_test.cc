// Devices that only map (dm, md): kPart stands on loop0, or on loop0 and loop1.
#include "tests/unit/blame/checks.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using Lines = std::vector<std::string>;

const model::Mapping kOnOne{.maps = {kPart}, .disks = {kDisk}};
const model::Mapping kOnTwo{.maps = {kPart}, .disks = {kDisk, kDecoy}};

TEST(Mapped, TheDiskWhoseRequestEndedTheWaitAndBeforeItTheOther) {
  Events events;
  events.mapping = kOnTwo;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(DIO_STACK)
      .in_call(ms(10))
      .dev(kPart)
      .request(1, 800, ms(30), ms(30), ms(60));
  events.request(1, 800, ms(30), ms(30), ms(60));
  events.request(1, 800, ms(10), ms(10), ms(30), kDecoy);
  events.request(1, 800, ms(10), ms(10), ms(60), kPart);  // the mapped device's own bio
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(roots_of(only_stall(trace).roots),
            (Lines{"device.write loop0 30000000 measured",
                   "device.write another disk 20000000 inferred"}));
}

TEST(Mapped, OfTwoMirrorsTheSlowerOneWhereNobodySaysWhich) {
  Events events;
  events.mapping = kOnTwo;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(DIO_STACK)
      .in_call(ms(10))
      .dev(kPart)
      .woken_by({500, "md0_raid1"});
  events.request(1, 800, ms(10), ms(10), ms(60));
  events.request(1, 800, ms(10), ms(10), ms(20), kDecoy);
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(roots_of(only_stall(trace).roots), Lines{"device.write loop0 50000000 inferred"});
}

TEST(Mapped, AFlushOfOneDiskIsNotOvertakenByTheOthersWrites) {
  Events events;
  events.mapping = kOnTwo;
  events.call(kFio, wire::CALL_FDATASYNC, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(FLUSH_STACK).in_call(ms(10)).dev(kPart);
  Events::member(events.flush(ms(10), ms(10), ms(60)), kFio, ms(10));
  events.request(1, 800, ms(20), ms(20), ms(30), kDecoy);
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(roots_of(only_stall(trace).roots), Lines{"device.flush loop0 50000000 measured"});
}

TEST(Mapped, WhatNoDiskBelowExplainsTheMappedDeviceTookItself) {
  Events events;
  events.mapping = kOnOne;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(DIO_STACK)
      .in_call(ms(10))
      .dev(kPart)
      .request(1, 800, ms(50), ms(50), ms(60));
  events.request(1, 800, ms(50), ms(50), ms(60));
  events.request(1, 800, ms(10), ms(10), ms(60), kPart);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"device.write another disk 40000000 inferred",
                                          "device.write loop0 10000000 measured"}));
  EXPECT_NE(stall.parts.at(0).causes.at(0).text.find("itself, not in a disk below it"),
            std::string::npos);
}

}  // namespace
}  // namespace stalltrace::blame
