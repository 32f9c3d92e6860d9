/* SPDX-License-Identifier: MIT */
/* Declares the soft_ functions that face.c calls, for the files that define them. */
#ifndef SOFT_ENTRY_H
#define SOFT_ENTRY_H

#include "soft.h"

#define ENTRY(type, name, parameters, arguments, otherwise) type soft_##name parameters;
#define ENTRY_VOID(name, parameters, arguments) void soft_##name parameters;
#define DECLINE(type, name, parameters, arguments, otherwise)
#include "entries.h"
#undef ENTRY
#undef ENTRY_VOID
#undef DECLINE

#endif
