// class: memory cpu thrown
const l = []; for (let i = 0; ; i++) l.push(new RegExp('(?:a{1,200}){1,3}' + i))
