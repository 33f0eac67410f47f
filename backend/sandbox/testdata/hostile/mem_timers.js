// class: host_denied thrown
// within: 6s
for (;;) setTimeout(() => {}, 1e6)
