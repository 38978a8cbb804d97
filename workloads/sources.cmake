add_library(st_workloads STATIC
  async_engine.cc
  block_order.cc
  channel.cc
  child.cc
  device_guard.cc
  dio_cell.cc
  dio_spec.cc
  disk_keeper.cc
  distribution.cc
  extra_load.cc
  disk_use.cc
  fio_job.cc
  fio_json.cc
  fio_keys.cc
  fio_keys_file.cc
  fio_keys_io.cc
  fio_keys_other.cc
  fio_keys_pace.cc
  fio_values.cc
  fsmark.cc
  fsmark_results.cc
  job_buffers.cc
  job_devices.cc
  job_pace.cc
  job_plan.cc
  job_spec.cc
  job_stats.cc
  job_worker.cc
  job_worker_issue.cc
  job_worker_sync.cc
  layout.cc
  libaio_engine.cc
  live_counts.cc
  load.cc
  mount_name.cc
  nowait.cc
  ops_log.cc
  osync.cc
  osync_engine.cc
  osync_spec.cc
  own_disk.cc
  phases.cc
  powercut.cc
  powercut_load.cc
  powercut_program.cc
  probe_worker.cc
  process.cc
  results.cc
  scenario.cc
  shared_sync.cc
  skewed_order.cc
  sync_engine.cc
  sync_worker.cc
  uring_engine.cc
  worker.cc)
target_link_libraries(st_workloads
  PUBLIC st_base st_disk nlohmann_json::nlohmann_json Threads::Threads
  PRIVATE ${LIBAIO} PkgConfig::LIBURING PkgConfig::MOUNT PkgConfig::BLKID)

# A scenario without tracing, to try a load or compare it with fio. Not installed.
add_executable(st_loadgen EXCLUDE_FROM_ALL loadgen_main.cc
  ${CMAKE_SOURCE_DIR}/userspace/cli/scenario_options.cc)
target_link_libraries(st_loadgen PRIVATE st_workloads CLI11::CLI11)
