// class: ok compile
import type { X } from 'fs'
export default (p: X) => 1
