// Runs the ledger of ../ledger.py on classic-level (LevelDB for Node), with writes that ask for `sync`.
//
//     store.js work FOLDER    applies the steps on its standard input
//     store.js dump FOLDER    prints all pairs, after it has made sure that another commit changes nothing else
const fs = require('fs')
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
  for (const [key, value] of Object.entries(found)) console.log(`${key}\t${value}`)
}

const fail = error => {
  console.error(error.cause ? `${error.message}: ${error.cause.message}` : error.message)
  process.exit(1)
}
const [what, folder] = process.argv.slice(2)
const run = { work, dump }[what]
run(folder).catch(fail)
