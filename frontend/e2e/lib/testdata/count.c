// Counts the words of {"text": …}. {"spin": true} never ends, {"wait": true} neither, without
// computing, {"exit": n} fails with n, {"eat": true} takes memory until there is none.
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char in[1 << 16];

int main(void) {
  size_t n = fread(in, 1, sizeof in - 1, stdin);
  in[n] = 0;
  fprintf(stderr, "read %zu bytes\n", n);
  if (strstr(in, "\"spin\"")) for (volatile unsigned i = 0;; i++) {}
  if (strstr(in, "\"wait\"")) for (;;) poll(NULL, 0, 1000);
  if (strstr(in, "\"eat\"")) {
    static char *volatile last;
    for (;;) {
      char *more = malloc(1 << 20);
      if (!more) { fputs("no memory is left\n", stderr); abort(); }
      memset(more, 1, 1 << 20);
      *(char **)more = last;
      last = more;
    }
  }
  char *at = strstr(in, "\"exit\":");
  if (at) { fputs("it was told to fail\n", stderr); return atoi(at + 7); }
  int words = 0, letters = 0, inside = 0;
  char *t = strstr(in, "\"text\"");
  if (t) t = strchr(t + 6, '"');
  for (t = t ? t + 1 : in + n; *t && *t != '"'; t++) {
    letters++;
    if (isspace((unsigned char)*t)) inside = 0;
    else if (!inside) inside = 1, words++;
  }
  printf("{\"words\":%d,\"characters\":%d}", words, letters);
  return 0;
}
