// class: host_denied thrown
// cpu: 2s
// within: 6s
for (;;) setTimeout(() => {}, 1e6)
