// The kernel types that our BPF programs name (vmlinux/vmlinux.h) against the running kernel's own:
// every struct is there, every field is there, and of the same kind and size where we read it.

#include <bpf/btf.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace {

struct BtfDelete {
  void operator()(btf* types) const { btf__free(types); }
};
using Types = std::unique_ptr<btf, BtfDelete>;

uint32_t strip(const btf* types, uint32_t id) {
  for (;;) {
    const btf_type* type = btf__type_by_id(types, id);
    if (!btf_is_mod(type) && !btf_is_typedef(type)) return id;
    id = type->type;
  }
}

// A member by name, looked for in anonymous members too, as CO-RE does.
const btf_member* find_member(const btf* types, uint32_t id, std::string_view name) {
  const btf_type* type = btf__type_by_id(types, strip(types, id));
  const btf_member* members = btf_members(type);
  for (int i = 0; i < btf_vlen(type); ++i) {
    std::string_view member = btf__name_by_offset(types, members[i].name_off);
    if (member == name) return &members[i];
    if (!member.empty()) continue;
    if (!btf_is_composite(btf__type_by_id(types, strip(types, members[i].type)))) continue;
    if (const btf_member* inside = find_member(types, members[i].type, name)) return inside;
  }
  return nullptr;
}

bool same_kind(const btf* ours, uint32_t our_id, const btf* theirs, uint32_t their_id) {
  our_id = strip(ours, our_id);
  their_id = strip(theirs, their_id);
  const btf_type* a = btf__type_by_id(ours, our_id);
  const btf_type* b = btf__type_by_id(theirs, their_id);
  auto number = [](const btf_type* t) { return btf_is_int(t) || btf_is_any_enum(t); };
  if (number(a) && number(b)) return a->size == b->size;
  if (btf_is_composite(a)) return btf_is_composite(b);
  if (btf_is_ptr(a)) return btf_is_ptr(b);
  if (btf_is_array(a)) return btf_is_array(b);
  return btf_kind(a) == btf_kind(b);
}

class VmlinuxTypes : public testing::Test {
 protected:
  void SetUp() override {
    kernel_.reset(btf__load_vmlinux_btf());
    if (!kernel_) GTEST_SKIP() << "this kernel has no BTF";
    ours_.reset(btf__parse_elf(BPF_OBJECT, nullptr));
    ASSERT_TRUE(ours_) << BPF_OBJECT;
  }
  Types kernel_, ours_;
};

TEST_F(VmlinuxTypes, EveryFieldWeNameIsInThisKernel) {
  // What vmlinux.h declares; the object's other structs are our own.
  const std::set<std::string> kernels_own{VMLINUX_STRUCTS};
  ASSERT_GT(kernels_own.size(), 30u);
  size_t checked = 0;
  for (uint32_t id = 1; id < btf__type_cnt(ours_.get()); ++id) {
    const btf_type* type = btf__type_by_id(ours_.get(), id);
    if (!btf_is_struct(type)) continue;
    std::string name = btf__name_by_offset(ours_.get(), type->name_off);
    // NAME___WORDS: how other kernels had it
    if (!kernels_own.contains(name) || name.find("___") != std::string::npos) continue;
    int32_t theirs = btf__find_by_name_kind(kernel_.get(), name.c_str(), BTF_KIND_STRUCT);
    ASSERT_GT(theirs, 0) << "this kernel has no struct " << name;
    const btf_member* members = btf_members(type);
    for (int i = 0; i < btf_vlen(type); ++i) {
      std::string member = btf__name_by_offset(ours_.get(), members[i].name_off);
      const btf_member* found = find_member(kernel_.get(), static_cast<uint32_t>(theirs), member);
      ASSERT_NE(found, nullptr) << "struct " << name << " has no " << member;
      EXPECT_TRUE(same_kind(ours_.get(), members[i].type, kernel_.get(), found->type))
          << "struct " << name << ": " << member << " is of another kind or size";
      ++checked;
    }
  }
  EXPECT_GT(checked, 60u);
}

}  // namespace
