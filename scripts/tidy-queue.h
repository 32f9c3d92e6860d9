/* SPDX-License-Identifier: MIT */
/*
 * For clang-tidy only, which includes it first in every file: a TAILQ_REMOVE that its analyzer can follow. The one of
 * sys/queue.h unlinks the first element through the pointer in the element, and the analyzer does not see that this
 * pointer is the head's own: it goes on as if the element were still the first, and finds it used after it was freed.
 */
#include <sys/queue.h>

#undef TAILQ_REMOVE
#define TAILQ_REMOVE(head, elm, field)                                                  \
	do {                                                                            \
		if (TAILQ_NEXT(elm, field) == (elm))                                    \
			__builtin_unreachable();                                        \
		if (TAILQ_NEXT(elm, field))                                             \
			TAILQ_NEXT(elm, field)->field.tqe_prev = (elm)->field.tqe_prev; \
		else                                                                    \
			(head)->tqh_last = (elm)->field.tqe_prev;                       \
		if (TAILQ_FIRST(head) == (elm))                                         \
			TAILQ_FIRST(head) = TAILQ_NEXT(elm, field);                     \
		else                                                                    \
			*(elm)->field.tqe_prev = TAILQ_NEXT(elm, field);                \
	} while (0)
