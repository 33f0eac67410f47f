// One of four kernels, chosen when it is compiled (-DKERNEL=n), as a WASI command that prints
// one number as JSON.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if KERNEL == 1 // matmul
enum { N = 320 };
static double a[N][N], b[N][N], c[N][N];
static double kernel(void) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) a[i][j] = i + j % 7, b[i][j] = i % 5 - j;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double s = 0;
      for (int k = 0; k < N; k++) s += a[i][k] * b[k][j];
      c[i][j] = s;
    }
  return c[17][211];
}
#elif KERNEL == 2 // sieve
enum { n = 8000000 };
static char composite[n + 1]; // static: Node's WASI crashes when memory grows
static double kernel(void) {
  int count = 0;
  for (int i = 2; i <= n; i++) {
    if (composite[i]) continue;
    count++;
    for (int64_t j = (int64_t)i * i; j <= n; j += i) composite[j] = 1;
  }
  return count;
}
#elif KERNEL == 3 // fib32
__attribute__((noinline)) static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static double kernel(void) { return fib(32); }
#else // crc
enum { n = 1 << 20 };
static uint32_t table[256];
static unsigned char data[n];
static double kernel(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t r = i;
    for (int k = 0; k < 8; k++) r = r & 1 ? r >> 1 ^ 0xedb88320u : r >> 1;
    table[i] = r;
  }
  for (int i = 0; i < n; i++) data[i] = i * 31 >> 3;
  uint32_t crc = ~0u;
  for (int round = 0; round < 16; round++)
    for (int i = 0; i < n; i++) crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
  return ~crc;
}
#endif

int main(void) {
  printf("%lld\n", (long long)kernel());
  return 0;
}
