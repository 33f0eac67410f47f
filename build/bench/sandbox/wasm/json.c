// Sums the numbers of a JSON document and echoes a small object: the same work for two
// hosts, over WASI's stdin and stdout or (with -DEXTISM) over Extism's own functions.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char in[1 << 16], out[256];

#ifdef EXTISM
#define HOST(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern
HOST(input_length) uint64_t input_length(void);
HOST(input_load_u64) uint64_t input_load_u64(uint64_t);
HOST(input_load_u8) uint32_t input_load_u8(uint64_t);
HOST(alloc) uint64_t host_alloc(uint64_t);
HOST(store_u64) void store_u64(uint64_t, uint64_t);
HOST(store_u8) void store_u8(uint64_t, uint32_t);
HOST(output_set) void output_set(uint64_t, uint64_t);
static size_t get(void) {
  uint64_t n = input_length(), i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w = input_load_u64(i);
    memcpy(in + i, &w, 8);
  }
  for (; i < n; i++) in[i] = input_load_u8(i);
  return n;
}
static void put(size_t n) {
  uint64_t at = host_alloc(n), i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    memcpy(&w, out + i, 8);
    store_u64(at + i, w);
  }
  for (; i < n; i++) store_u8(at + i, out[i]);
  output_set(at, n);
}
#else
#include <unistd.h>
static size_t get(void) {
  size_t n = 0;
  for (ssize_t k; n < sizeof in && (k = read(0, in + n, sizeof in - n)) > 0;) n += k;
  return n;
}
static void put(size_t n) { write(1, out, n); }
#endif

static size_t decimal(char *to, int64_t v) {
  char text[24];
  size_t n = 0, k = 0;
  if (v < 0) to[k++] = '-', v = -v;
  do text[n++] = '0' + v % 10;
  while (v /= 10);
  while (n) to[k++] = text[--n];
  return k;
}

static void work(void) {
  size_t n = get();
  int64_t sum = 0, count = 0;
  for (size_t i = 0; i < n; i++) {
    if (in[i] == '"') {
      for (i++; i < n && in[i] != '"'; i++)
        if (in[i] == '\\') i++;
    } else if (in[i] >= '0' && in[i] <= '9') {
      int64_t v = 0;
      for (; i < n && in[i] >= '0' && in[i] <= '9'; i++) v = v * 10 + in[i] - '0';
      sum += v, count++;
    }
  }
  size_t k = 0;
  memcpy(out, "{\"count\":", 9);
  k = 9 + decimal(out + 9, count);
  memcpy(out + k, ",\"sum\":", 7);
  k += 7;
  k += decimal(out + k, sum);
  out[k++] = '}';
  put(k);
}

#ifdef EXTISM
__attribute__((export_name("execute"))) int execute(void) {
  work();
  return 0;
}
#else
__attribute__((export_name("execute"))) void execute(void) { work(); }
#endif
