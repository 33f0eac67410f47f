// files reads, seeks, stats and lists in the folder /docs.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int main(void) {
  FILE *f = fopen("/docs/a.txt", "r");
  if (!f) {
    perror("open");
    return 5;
  }
  char first[64] = {0}, later[64] = {0};
  fread(first, 1, sizeof first - 1, f);
  fseek(f, 5, SEEK_SET);
  fread(later, 1, sizeof later - 1, f);
  fclose(f);
  struct stat st;
  if (stat("/docs/a.txt", &st)) return 6;
  DIR *d = opendir("/docs");
  if (!d) return 7;
  char *names[16];
  int n = 0;
  for (struct dirent *e; n < 16 && (e = readdir(d));)
    if (e->d_name[0] != '.') names[n++] = strdup(e->d_name);
  closedir(d);
  qsort(names, n, sizeof *names, by_name);
  printf("{\"first\":\"%s\",\"from5\":\"%s\",\"size\":%lld,\"names\":[", first, later, (long long)st.st_size);
  for (int i = 0; i < n; i++) printf("%s\"%s\"", i ? "," : "", names[i]);
  printf("]}");
  return 0;
}
