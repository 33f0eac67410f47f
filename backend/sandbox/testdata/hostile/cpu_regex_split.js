// class: cpu memory
for (;;) 'a,b'.repeat(1e5).split(/(?:,|$)*?/u)
