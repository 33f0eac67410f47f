// The microseconds of processor time that reading answer.json and checking it with a compiled schema.json take.
// node validate.mjs FOLDER
import Ajv from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'

const dir = process.argv[2]
const validate = new Ajv({ allErrors: true }).compile(JSON.parse(readFileSync(dir + '/schema.json', 'utf8')))
const text = readFileSync(dir + '/answer.json', 'utf8')
const n = 20000
const rounds = (n) => {
  for (let i = 0; i < n; i++) if (!validate(JSON.parse(text))) throw new Error('not valid')
}
rounds(2000)
const began = process.cpuUsage()
rounds(n)
const { user, system } = process.cpuUsage(began)
console.log((user + system) / n)
