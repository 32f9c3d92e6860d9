/* SPDX-License-Identifier: MIT */
/*
 * Strict mode: what the verbs leave undefined, or what real hardware punishes late and far from its
 * cause, ends the process at once and says what it was.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "soft.h"

/* NOLINTNEXTLINE: AddressSanitizer's own name for it, where the program has that. */
__attribute__((weak)) void *__asan_region_is_poisoned(void *begin, size_t size);

void soft_breach(const char *format, ...)
{
	char text[256];
	va_list args;
	if (!soft.config.strict)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "softefa: the contract of the verbs is broken: %s\n", text);
	abort();
}

/* Asks the kernel to read a byte of each page, which fails where we would be killed. */
static bool is_mapped(const char *addr, size_t len)
{
	long page = sysconf(_SC_PAGESIZE);
	while (len > 0) {
		char byte;
		struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)addr, 1};
		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0) {
			/* Where a container forbids the call, nothing is known. */
			return errno != EFAULT;
		}
		size_t step = (size_t)page - (uintptr_t)addr % (size_t)page;
		if (step >= len)
			break;
		addr += step;
		len -= step;
	}
	return true;
}

bool soft_memory_there(const char *what, const void *addr, size_t len)
{
	if (!soft.config.strict || len == 0)
		return true;
	if (!is_mapped(addr, len)) {
		soft_breach("%s: the memory at %p, %zu bytes, was unmapped while in use", what,
			    addr, len);
		return false;
	}
	if (&__asan_region_is_poisoned && __asan_region_is_poisoned((void *)(uintptr_t)addr, len)) {
		soft_breach("%s: the memory at %p, %zu bytes, was freed or poisoned while in use",
			    what, addr, len);
		return false;
	}
	return true;
}
