// class: ok
// output: 1
setTimeout(() => { for (;;) console.log('late') }, 0); setTimeout(() => { throw 1 }, 0); helix.state.keys().then(() => { for (;;) {} }, () => { for (;;) {} }); return 1
