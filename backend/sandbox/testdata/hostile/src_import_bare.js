// class: compile
import 'data:text/javascript,1'
export default () => 1
