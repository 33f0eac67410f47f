// class: ok compile thrown
/** @jsxImportSource /etc */
/* @jsx require('fs') */
return 1
