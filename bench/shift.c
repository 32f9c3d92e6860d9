/* SPDX-License-Identifier: MIT */
/*
 * Nothing but BENCH_SHIFT bytes at the front of a program or library, so that all behind it lies
 * elsewhere.
 *
 * Where code lies changes its speed by chance, probably through the processor's predictors. With
 * two cores passing a cache line to and fro that alone has made the same loop a fifth slower. So
 * the benchmark is built several times, each time shifted, and bench/run takes turns with them.
 */
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

/* The linker puts this section in front of all other code, wherever this file comes in its list. */
__asm__(".pushsection .text.unlikely, \"ax\", @progbits\n"
	"\t.skip " TEXT_OF(BENCH_SHIFT) "\n"
					"\t.popsection\n");

/* ISO C wants a declaration in every file. */
typedef int shift_nothing;
