// class: compile
export * from 'fs'
export default () => 1
