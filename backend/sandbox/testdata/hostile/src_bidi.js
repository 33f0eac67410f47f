// class: ok compile
const a = '‮'; /* ⁦ */ return 1
