// class: cpu
for (;;) performance.now(), Date.now()
