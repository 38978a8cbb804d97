// Symbols and rows that both parts of the stack table use.
#pragma once

#include <string_view>

#include "userspace/kernel/wait_class_table.h"

namespace stalltrace::kernel::symbols {

// Functions that stand for one thing in many rows. Old names stay: reports from old kernels are
// read too, and a name costs nothing.

// rwsem slow paths: 5.x on; 4.x and older; PREEMPT_RT.
inline constexpr std::string_view kRwsem =
    "rwsem_down_read_slowpath rwsem_down_write_slowpath "
    "rwsem_down_read_failed* rwsem_down_write_failed* rwsem_down_failed_common "
    "call_rwsem_down_* __down_read __down_write "
    "__rwbase_read_lock rwbase_read_lock rwbase_write_lock";
inline constexpr std::string_view kMutex =
    "__mutex_lock* mutex_lock* rt_mutex_slowlock* rt_mutex_lock*";
inline constexpr std::string_view kAnyLock =
    "__mutex_lock* mutex_lock* rt_mutex_* __rt_mutex_* rwsem_down_* call_rwsem_down_* __down_read "
    "__down_write __rwbase_read_lock rwbase_* down __down __down_common __down_timeout "
    "__down_killable __down_interruptible down_timeout percpu_rwsem_wait percpu_down_write "
    "__percpu_down_read __wait_on_freeing_inode d_alloc_parallel";

// A buffer head's bit: uptodate, locked, shadow.
inline constexpr std::string_view kBufferWait =
    "out_of_line_wait_on_bit* __wait_on_bit* __wait_on_buffer wait_on_buffer __lock_buffer "
    "bit_wait_io sync_buffer sleep_on_buffer";
inline constexpr std::string_view kBufferLock =
    "out_of_line_wait_on_bit_lock __wait_on_bit_lock __lock_buffer lock_buffer";

// A page's bit, whatever it is for: 5.16 on; 4.x and 5.x; older.
inline constexpr std::string_view kPageBit =
    "folio_wait_bit* __folio_lock* folio_lock folio_put_wait_locked "
    "wait_on_page_bit* wait_on_page_locked* __lock_page* put_and_wait_on_page_locked "
    "sleep_on_page*";
inline constexpr std::string_view kWritebackWait =
    "folio_wait_writeback* wait_on_page_writeback* __filemap_fdatawait_range "
    "filemap_fdatawait_range* filemap_fdatawait*";

inline constexpr std::string_view kReclaim =
    "mempool_alloc* bio_alloc_bioset try_to_free_pages do_try_to_free_pages "
    "shrink_lruvec* shrink_node* shrink_page_list shrink_folio_list shrink_inactive_list "
    "shrink_active_list shrink_slab* do_shrink_slab shrink_zone* shrink_list shrink_one "
    "shrink_many __alloc_pages_slowpath __alloc_pages_direct_* __alloc_pages_may_oom "
    "mem_cgroup_charge* __mem_cgroup_charge* mem_cgroup_try_charge* charge_memcg try_charge* "
    "obj_cgroup_charge* try_to_free_mem_cgroup_pages mem_cgroup_oom* mem_cgroup_out_of_memory "
    "throttle_direct_reclaim reclaim_throttle congestion_wait* wait_iff_congested out_of_memory "
    "throttle_vm_writeout compact_zone* do_swap_page swapin_readahead";

// Waits inside the block layer, before a request exists. These functions are where a task sleeps
// and nothing else sleeps inside them, so they come before the rows that name what led there.
inline constexpr WaitRow kTagRow{
    // blk_mq_get_tag; bt_get (3.13 to 4.11); get_request (before blk-mq).
    .number = "20",
    .wait_class = WaitClass::kBlockTag,
    .any = "blk_mq_get_tag bt_get get_request get_request_wait",
    .meaning = "waits for a free request of the device"};
inline constexpr WaitRow kIolatencyRow{.number = "21",
                                       .wait_class = WaitClass::kBlockThrottle,
                                       .any = "blkcg_iolatency_throttle __blkcg_iolatency_throttle",
                                       .meaning = "held back by the cgroup's I/O latency limit"};
inline constexpr WaitRow kIocostRow{.number = "21",
                                    .wait_class = WaitClass::kBlockThrottle,
                                    .any = "ioc_rqos_throttle",
                                    .meaning = "held back by the cgroup's I/O cost limit"};
inline constexpr WaitRow kWbtRow{.number = "21",
                                 .wait_class = WaitClass::kBlockWbt,
                                 .any = "rq_qos_wait wbt_wait __wbt_wait",
                                 .meaning = "held back by writeback throttling of the device"};
inline constexpr WaitRow kFrozenRow{
    .number = "23",
    .wait_class = WaitClass::kBlockFrozen,
    .any = "__bio_queue_enter blk_queue_enter blk_mq_queue_enter blk_mq_freeze_queue_wait*",
    .meaning = "waits while the device's queue is frozen"};
inline constexpr WaitRow kFrozenInlinedRow{
    // 5.15: bio_queue_enter is inlined into its callers.
    .number = "23",
    .wait_class = WaitClass::kBlockFrozen,
    .leaf = "submit_bio_noacct blk_mq_submit_bio __submit_bio generic_make_request",
    .meaning = "waits while the device's queue is frozen"};

}  // namespace stalltrace::kernel::symbols
