// class: compile
import x from './a.json' with { type: 'json' }
export default () => x
