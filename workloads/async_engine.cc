#include "workloads/async_engine.h"

namespace stalltrace::workloads {

int AsyncEngine::submit(const IoRequest& request) {
  queue(request);
  int taken = commit();
  if (taken <= 0) drop_queued();
  return taken;
}

std::unique_ptr<AsyncEngine> make_async_engine(Engine engine, const EngineSetup& setup) {
  return engine == Engine::kIoUring ? make_uring_engine(setup) : make_libaio_engine(setup);
}

}  // namespace stalltrace::workloads
