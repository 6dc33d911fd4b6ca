/* Labels that are not the number of a token. */
#ifndef TRI_BASE_LABEL_H
#define TRI_BASE_LABEL_H

/* No negative label counts in the loss. A row whose label is TRI_LABEL_NONE is a token nevertheless: it is routed to
 * experts, and counted with them. TRI_LABEL_PADDING is not such a label: sequences are padded with it, and no router
 * sees it. */
enum { TRI_LABEL_NONE = -1, TRI_LABEL_PADDING = -2 };

#endif
