// class: compile thrown
import defer * as x from 'y'
export default () => 1
