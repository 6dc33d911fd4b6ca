/* Reports predictions as text and as JSON. */
#ifndef TRI_PLAN_REPORT_H
#define TRI_PLAN_REPORT_H

#include "plan/simulate.h"

#include <jansson.h>
#include <stdio.h>

/* Returns { layout, step_s, tokens_per_s, tflops_per_device, model_tflops_per_device, hardware_tflops_per_device (the
 * same as tflops_per_device), mfu, hfu, bubble, fits, time: {...}, memory: {...}, sequence, sequence_assumed, accuracy:
 * {...} (tri_accuracy_json), num_parameters }; with tokens > 0 also { tokens, days, node_hours, device_hours }; and,
 * depending on the request, { documents: {...}, experts: {...}, preferences: {...}, context_row_pairs_by_prices }.
 * Returns NULL if memory is exhausted. */
json_t *tri_report_json(const tri_simulation_request *request, const tri_prediction *prediction, double tokens);

enum { TRI_REPORT_ATTENTION_BYTES = 96 };
/* Returns the text that follows "sequences of N tokens" in a report: " (the model's longest; ...)" if N was assumed,
 * else "". */
const char *tri_report_assumed(bool assumed);
/* Returns a text about the FLOPs of attention, such as "attention is counted as 50 % of ...". The result is `out` or
 * a constant. */
const char *tri_report_attention(const tri_simulation_request *request, char out[TRI_REPORT_ATTENTION_BYTES]);

/* Writes the memory of a device, such as "79.65 GiB", and how much of it is reserved, if any is. Returns out. */
enum { TRI_REPORT_MEMORY_BYTES = 80 };
char *tri_report_memory(const tri_simulation_request *request, char out[TRI_REPORT_MEMORY_BYTES]);

/* Prints the accuracy of predictions for a system on that many devices of a cluster: a line for the errors of
 * published runs, a line for the fitted constants of the cluster, and a line if the kernels of this program have not
 * run on such devices yet. */
void tri_report_accuracy(const tri_cluster *cluster, const tri_system *system, int64_t devices, FILE *to);

/* The following functions print the parts of a report, in this order. A report ends with the output of
 * tri_report_accuracy and tri_run_cost_text (cost.h). */
/* Prints one line with the model, the sequences, the devices, and the cluster with its description
 * (tri_cluster.about). */
void tri_report_heading(const tri_simulation_request *request, FILE *to);
/* Prints the layout, the rates of a step, and the parts of its time; then, as far as the prediction has them, lines on
 * overlapped communication, tensor ranks, documents, experts, context_row_pairs and preference losses. */
void tri_report_speed(const tri_simulation_request *request, const tri_prediction *prediction, FILE *to);
/* Prints the peak memory of the fullest rank, whether it fits, and its parts. */
void tri_report_memory_parts(const tri_simulation_request *request, const tri_prediction *prediction, FILE *to);

/* Returns the keys of the layout as JSON, with their names in run files. */
json_t *tri_report_layout(const tri_layout *layout);

/* Prints "layout: {...}" with the keys of the layout, to be pasted into a run file. */
void tri_report_paste(const tri_layout *layout, FILE *to);

#endif
