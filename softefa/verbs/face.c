/* SPDX-License-Identifier: MIT */
/*
 * The entry points. While the device is asked for, each does what the soft_ function of its name
 * does; otherwise it hands on to the library that would have been called if this one were not
 * there.
 *
 * They are defined without symbol versions: such a definition satisfies a reference to any version.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "device.h"
#include "soft.h"

/* The headers make macros of some, for callers. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

/* What older headers have not got. */
struct efadv_mr_attr;
struct efadv_cq_attr;
struct efadv_wq_attr;
struct efadv_sq_depth_attr;
struct efadv_rq_depth_attr;
struct efadv_qp;
struct ibv_comp_cntr;
struct ibv_comp_cntr_init_attr;
struct ibv_comp_cntr_caps;
struct ibv_qp_attach_comp_cntr_attr;
struct efadv_comp_cntr_init_attr;

#define EXPORT __attribute__((visibility("default")))

#define ENTRY(type, name, parameters, arguments, otherwise)                                        \
	EXPORT type name parameters;                                                               \
	type soft_##name parameters;
#define ENTRY_VOID(name, parameters, arguments)                                                    \
	EXPORT void name parameters;                                                               \
	void soft_##name parameters;
#define DECLINE(type, name, parameters, arguments, otherwise) EXPORT type name parameters;
#include "entries.h"
#undef ENTRY
#undef ENTRY_VOID
#undef DECLINE

/*
 * The definition behind this library's. dlsym() returns a pointer to an object, which POSIX lets be
 * one to a function. A libfabric that was loaded for its caller alone (RTLD_LOCAL), as a plugin is,
 * has libraries that RTLD_NEXT does not find.
 */
static void *behind(const char *name)
{
	static const char *const libraries[] = {"libibverbs.so.1", "libefa.so.1"};
	void *found = dlsym(RTLD_NEXT, name);
	for (size_t i = 0; !found && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
		if (!library)
			continue;
		found = dlsym(library, name);
		dlclose(library);
	}
	return found;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): these are types, names and lists of parameters. */
#define HAND_ON(type, name, parameters, arguments, otherwise)                                      \
	type(*next) parameters;                                                                    \
	*(void **)&next = behind(#name);                                                           \
	if (next)                                                                                  \
		return next arguments;                                                             \
	errno = EOPNOTSUPP;                                                                        \
	return otherwise;

#define ENTRY(type, name, parameters, arguments, otherwise)                                        \
	type name parameters                                                                       \
	{                                                                                          \
		if (soft_asked())                                                                  \
			return soft_##name arguments;                                              \
		HAND_ON(type, name, parameters, arguments, otherwise);                             \
	}
#define ENTRY_VOID(name, parameters, arguments)                                                    \
	void name parameters                                                                       \
	{                                                                                          \
		void(*next) parameters;                                                            \
		if (soft_asked()) {                                                                \
			soft_##name arguments;                                                     \
			return;                                                                    \
		}                                                                                  \
		*(void **)&next = behind(#name);                                                   \
		if (next)                                                                          \
			next arguments;                                                            \
	}
#define DECLINE(type, name, parameters, arguments, otherwise)                                      \
	type name parameters                                                                       \
	{                                                                                          \
		if (soft_asked()) {                                                                \
			errno = EOPNOTSUPP;                                                        \
			return otherwise;                                                          \
		}                                                                                  \
		HAND_ON(type, name, parameters, arguments, otherwise);                             \
	}
#include "entries.h"
/* NOLINTEND(bugprone-macro-parentheses) */
