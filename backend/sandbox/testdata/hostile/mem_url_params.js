// class: memory cpu thrown
const p = new URLSearchParams(); for (let i = 0; ; i++) p.append('k' + i, 'v')
