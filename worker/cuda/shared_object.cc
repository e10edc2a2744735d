#include "worker/cuda/shared_object.h"

#include <dlfcn.h>
#include <link.h>

#include "absl/strings/str_cat.h"

namespace farandole::worker::cuda {

void SharedObject::Close::operator()(void* handle) const { dlclose(handle); }

absl::StatusOr<SharedObject> SharedObject::OpenWith(const std::string& name, int more_flags) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
  if (handle != nullptr) return SharedObject(handle);
  // No reason is left behind when a library is merely not loaded.
  const char* reason = dlerror();
  return absl::NotFoundError(reason != nullptr ? std::string(reason) : absl::StrCat(name, ": not in this process"));
}

absl::StatusOr<SharedObject> SharedObject::Open(const std::string& name) { return OpenWith(name, 0); }

absl::StatusOr<SharedObject> SharedObject::InProcess(const std::string& name) { return OpenWith(name, RTLD_NOLOAD); }

void* SharedObject::Find(const char* symbol) const { return dlsym(handle_.get(), symbol); }

std::string SharedObject::path() const {
  link_map* map = nullptr;
  return dlinfo(handle_.get(), RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

}  // namespace farandole::worker::cuda
