/* SPDX-License-Identifier: MIT */
/*
 * For clang-tidy only, which includes it first in every file: list and table macros in a form that its analyzer can
 * follow. Without these it finds elements used after they were freed, and tables that are NULL, where neither can be.
 */
#include <sys/queue.h>

/*
 * The macro of sys/queue.h unlinks the first element through the pointer in the element. The analyzer does not see
 * that this pointer is the head's own, and goes on as if the element were still the first.
 */
#undef TAILQ_REMOVE
#define TAILQ_REMOVE(head, elm, field)                                                  \
	do {                                                                            \
		if (TAILQ_NEXT(elm, field))                                             \
			TAILQ_NEXT(elm, field)->field.tqe_prev = (elm)->field.tqe_prev; \
		else                                                                    \
			(head)->tqh_last = (elm)->field.tqe_prev;                       \
		if (TAILQ_FIRST(head) == (elm))                                         \
			TAILQ_FIRST(head) = TAILQ_NEXT(elm, field);                     \
		else                                                                    \
			*(elm)->field.tqe_prev = TAILQ_NEXT(elm, field);                \
	} while (0)

/* As src/ has it; this header comes first. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/*
 * The analyzer takes every element for one that may be the table's last, and a table for gone when it has removed one
 * such. A function that it cannot look into may have done anything.
 */
void tidy_hash_delete(void *head, void *element);
#undef HASH_DELETE
#define HASH_DELETE(hh, head, delptr) tidy_hash_delete(&(head), delptr)
