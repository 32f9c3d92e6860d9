/* SPDX-License-Identifier: MIT */
/*
 * Nothing but BENCH_SHIFT bytes at the front of a program or library, so that all behind it lies elsewhere.
 *
 * Where code lies decides by chance which of its branches share an entry of the processor's predictors, also with
 * libfabric's. With two cores passing a cache line to and fro that alone has made the same loop a fifth slower. So the
 * benchmark is built several times, each time shifted, and bench/run takes turns with them.
 */
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

__asm__(".text\n\t.skip " TEXT_OF(BENCH_SHIFT) "\n");

/* ISO C wants a declaration in every file. */
typedef int shift_nothing;
