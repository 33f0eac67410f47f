// class: ok compile thrown
export default () => typeof import.meta + Object.keys(import.meta)
