// Runs the ledger of ../ledger.py on classic-level (LevelDB for Node), with writes that ask for `sync`.
//
//     store.js work FOLDER    applies the steps on its standard input
//     store.js dump FOLDER    prints all pairs, after it has made sure that another commit changes nothing else
//     store.js serve SOCKET   does `dump` for ../ask.c, so that Node need not be started for each check
const fs = require('fs')
const net = require('net')
const path = require('path')
const { ClassicLevel } = require('classic-level')

const open = async folder => {
  const db = new ClassicLevel(folder, { writeBufferSize: 1 << 16 })
  await db.open()
  return db
}

const pairs = async db => Object.fromEntries(await db.iterator().all())

const acknowledge = async step => {
  fs.writeFileSync(process.env.TANTALUM_ACK, `${step}\n`)
  await new Promise(resolve => setTimeout(resolve, 20)) // what is heard late tests fewer cuts
}

const work = async folder => {
  let db = await open(folder)
  let changes = []
  for (const line of fs.readFileSync(0, 'utf8').trim().split('\n')) {
    const [what, key, value] = line.split(' ')
    if (what === 'put') {
      changes.push({ type: 'put', key, value })
    } else if (what === 'delete') {
      changes.push({ type: 'del', key })
    } else if (what === 'commit') {
      await db.batch(changes, { sync: true })
      changes = []
      await acknowledge(key)
    } else if (what === 'compact') {
      await db.compactRange('a', 'z')
    } else {
      await db.close()
      db = await open(folder)
    }
  }
  await db.close()
}

const dump = async folder => {
  let db = await open(folder)
  const found = await pairs(db)
  await db.put('after', 'the cut', { sync: true })
  await db.close()
  db = await open(folder)
  const later = await pairs(db)
  await db.close()
  const { after, ...rest } = later
  if (after !== 'the cut' || JSON.stringify(rest) !== JSON.stringify(found)) {
    throw new Error('a commit after the power cut changed more than it wrote')
  }
  return Object.entries(found).map(([key, value]) => `${key}\t${value}\n`).join('')
}

// A request is the folder and then words, the last of which names the store's folder; each has a zero at its end. The answer
// ends with the exit code in one byte.
const serve = async place => {
  const server = net.createServer({ allowHalfOpen: true }, client => {
    let request = ''
    client.on('error', () => {}) // the check was given up
    client.on('data', part => { request += part })
    client.on('end', async () => {
      const words = request.split('\0').slice(0, -1)
      const folder = path.resolve(words[0], words[words.length - 1])
      const [code, text] = await dump(folder).then(pairs => [0, pairs], error => [1, `${meaning(error)}\n`])
      client.end(Buffer.concat([Buffer.from(text), Buffer.from([code])]))
    })
  })
  server.listen(place, () => console.log('ready'))
}

const meaning = error => (error.cause ? `${error.message}: ${error.cause.message}` : error.message)

const fail = error => {
  console.error(meaning(error))
  process.exit(1)
}
const [what, folder] = process.argv.slice(2)
const print = async folder => process.stdout.write(await dump(folder))
const run = { work, dump: print, serve }[what]
run(folder).catch(fail)
