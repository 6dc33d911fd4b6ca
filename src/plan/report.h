/* Predictions as text and as JSON. */
#ifndef TRI_PLAN_REPORT_H
#define TRI_PLAN_REPORT_H

#include "plan/simulate.h"

#include <jansson.h>
#include <stdio.h>

/* Returns { layout, step_s, tokens_per_s, tflops_per_device, model_tflops_per_device, hardware_tflops_per_device (the
 * same as tflops_per_device), mfu, hfu, bubble, fits, time: {...}, memory: {...}, sequence, sequence_assumed, accuracy:
 * {...} (tri_accuracy_json), num_parameters }; with tokens > 0 also { tokens, days, node_hours, device_hours }; and, if
 * they apply, { documents: {...}, experts: {...}, preferences: {...}, context_row_pairs_by_prices }. NULL if memory is
 * exhausted. */
json_t *tri_report_json(const tri_simulation_request *request, const tri_prediction *prediction, double tokens);

enum { TRI_REPORT_ATTENTION_BYTES = 96 };
/* Returns the text after "sequences of N tokens": " (the model's longest; ...)" if N was not given, else "". */
const char *tri_report_assumed(bool assumed);
/* Writes how attention is counted in FLOPs: "attention is counted ...". Returns out. */
const char *tri_report_attention(const tri_simulation_request *request, char out[TRI_REPORT_ATTENTION_BYTES]);

/* Writes the memory of a device: "79.65 GiB", and how much of it is reserved. Returns out. */
enum { TRI_REPORT_MEMORY_BYTES = 80 };
char *tri_report_memory(const tri_simulation_request *request, char out[TRI_REPORT_MEMORY_BYTES]);

/* Prints how far a prediction of a system on that many devices of a cluster may be trusted: a line for the errors of
 * published runs, for the cluster's constants and for kernels that have not run there. */
void tri_report_accuracy(const tri_cluster *cluster, const tri_system *system, int64_t devices, FILE *to);

/* The parts of a report as text, in the order of a report, which ends with tri_report_accuracy and tri_run_cost_text
 * (cost.h). */
/* Prints one line: the model, sequences, devices, and the cluster with its description (tri_cluster.about). */
void tri_report_heading(const tri_simulation_request *request, FILE *to);
/* Prints the layout, its rates and the parts of a step's time. */
void tri_report_speed(const tri_simulation_request *request, const tri_prediction *prediction, FILE *to);
/* Prints the peak of the fullest rank, whether it fits, and its parts. */
void tri_report_memory_parts(const tri_simulation_request *request, const tri_prediction *prediction, FILE *to);

/* Returns the layout's keys as JSON, as a run file has them. */
json_t *tri_report_layout(const tri_layout *layout);

/* Prints "layout:" and its keys, to be pasted into a run file. */
void tri_report_paste(const tri_layout *layout, FILE *to);

#endif
