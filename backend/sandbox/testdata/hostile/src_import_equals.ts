// class: compile thrown
import fs = require('fs')
export default () => fs
