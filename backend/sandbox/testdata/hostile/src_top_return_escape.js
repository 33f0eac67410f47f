// class: compile thrown ok
}); globalThis.escaped = 1; (function () { return 1
