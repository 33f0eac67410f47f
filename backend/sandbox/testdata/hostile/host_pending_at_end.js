// class: ok
// host: wait
// output: 1
helix.state.keys().then(() => { for (;;) {} }, () => { for (;;) {} }); helix.fetch('https://x').finally(() => { for (;;) {} }).catch(() => 1); return 1
