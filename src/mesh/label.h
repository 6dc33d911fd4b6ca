/* Labels that are not the id of a token. */
#ifndef TRI_MESH_LABEL_H
#define TRI_MESH_LABEL_H

/* Negative labels do not count in the loss. A row with the label TRI_LABEL_NONE is still a token: it is routed to
 * experts and counted with them. A row with TRI_LABEL_PADDING is padding, which routers ignore. */
enum { TRI_LABEL_NONE = -1, TRI_LABEL_PADDING = -2 };

#endif
