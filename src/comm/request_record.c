/* Describes a request for the flight recorder. */
#include "comm/internal.h"

tri_record tri_request_record(const tri_request *request) {
  static const tri_record_kind kinds[] = {TRI_RECORD_SEND, TRI_RECORD_RECEIVE};
  tri_record record = tri_record_make(request->is_message ? kinds[request->receives] : TRI_RECORD_COLLECTIVE,
                                      tri_operation_name(request->operation));
  record.group = request->group->name;
  /* A ticket of 0, before the recorder gives one, stands for the new record's own ticket. */
  record.number = request->is_message ? request->ticket : request->number;
  record.bytes = (int64_t)request->bytes;
  record.background = request->background;
  if (request->is_message) {
    record.peer = request->peer;
    record.tag = request->tag;
  }
  return record;
}
