// class: cpu
'a'.replace(/a/, () => { for (;;) {} })
