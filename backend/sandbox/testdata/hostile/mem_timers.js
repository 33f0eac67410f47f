// class: host_denied thrown
for (;;) setTimeout(() => {}, 1e6)
