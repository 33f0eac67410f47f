// class: ok
return typeof SharedArrayBuffer + typeof Atomics
