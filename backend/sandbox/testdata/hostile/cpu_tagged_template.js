// class: cpu
const t = () => { for (;;) {} }; t`x`
