// json reads one JSON document and says how many values of each kind it holds and what its
// numbers add up to. It parses by itself, so that the work is the guest's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *p, *end;
static long objects, arrays, strings, numbers, words;
static double sum;

static void blank(void) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
}

static int fail(const char *what) {
  fprintf(stderr, "not JSON at byte %ld: %s\n", (long)(end - p), what);
  exit(2);
}

static void text(void) {
  for (p++; p < end && *p != '"'; p++)
    if (*p == '\\') p++;
  if (p++ >= end) fail("string without end");
  strings++;
}

static void value(void) {
  blank();
  if (p >= end) fail("nothing");
  if (*p == '{' || *p == '[') {
    char close = *p == '{' ? '}' : ']';
    *p == '{' ? objects++ : arrays++;
    p++;
    blank();
    if (p < end && *p == close) {
      p++;
      return;
    }
    for (;;) {
      if (close == '}') {
        blank();
        if (p >= end || *p != '"') fail("no name");
        text();
        blank();
        if (p >= end || *p++ != ':') fail("no colon");
      }
      value();
      blank();
      if (p >= end) fail("no end");
      char c = *p++;
      if (c == close) return;
      if (c != ',') fail("no comma");
    }
  }
  if (*p == '"') {
    text();
    return;
  }
  if (*p == '-' || (*p >= '0' && *p <= '9')) {
    char *after;
    sum += strtod(p, &after);
    if (after == p) fail("no number");
    p = after;
    numbers++;
    return;
  }
  if (*p >= 'a' && *p <= 'z') {
    while (p < end && *p >= 'a' && *p <= 'z') p++;
    words++;
    return;
  }
  fail("unknown character");
}

__attribute__((export_name("execute"))) void execute(void) {
  size_t size = 0, room = 4096;
  char *buf = malloc(room + 1);
  for (size_t n; (n = fread(buf + size, 1, room - size, stdin)) > 0;) {
    size += n;
    if (size == room) buf = realloc(buf, (room *= 2) + 1);
  }
  buf[size] = 0;
  p = buf;
  end = buf + size;
  value();
  printf("{\"objects\":%ld,\"arrays\":%ld,\"strings\":%ld,\"numbers\":%ld,\"words\":%ld,\"sum\":%.17g}\n",
         objects, arrays, strings, numbers, words, sum);
  fflush(stdout);
}
