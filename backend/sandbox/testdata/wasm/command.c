// command says how much it read and exits with the number that its input names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

int main(int argc, char **argv) {
  char in[4096];
  size_t n = fread(in, 1, sizeof in - 1, stdin);
  in[n] = 0;
  int variables = 0;
  for (char **e = environ; e && *e; e++) variables++;
  fprintf(stderr, "first line\n\nno end of line");
  printf("{\"read\":%zu,\"arguments\":%d,\"environment\":%d}", n, argc, variables);
  char *at = strstr(in, "\"exit\":");
  return at ? atoi(at + 7) : 0;
}
