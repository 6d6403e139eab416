// @platformatic/kafka: topics, records, groups, and administration.

import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { COMMITTED, COPIED, TRANSACTIONS, VALUES, claim, halves, readBack, same, until, version } from './claims.mjs'

const [folder, bootstrap] = process.argv.slice(2)
const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = await import(
  pathToFileURL(join(folder, 'dist/index.js'))
)

const RECORDS = 100
const common = { clientId: 'interop', bootstrapBrokers: bootstrap.split(',') }
const topic = `platformatic-${process.hrtime.bigint()}`
const admin = new Admin(common)

version(folder)

await claim('topics are created and described', async () => {
  await admin.createTopics({ topics: [topic], partitions: 3, replicas: 3 })
  const found = await admin.metadata({ topics: [topic] })
  same(found.topics.get(topic).partitions.map((each) => each.replicas.length), [3, 3, 3])
})

await claim('batches of each codec are acknowledged', async () => {
  for (const compression of ['none', 'gzip', 'snappy']) {
    const producer = new Producer({ ...common, serializers: stringSerializers, idempotent: true })
    const messages = [...Array(RECORDS).keys()].map((number) => ({
      topic,
      key: `${number}`,
      value: `${compression}-${number}`,
    }))
    await producer.send({ messages, acks: -1, compression })
    await producer.close()
  }
})

async function readWithGroup(groupId, wanted) {
  const consumer = new Consumer({ ...common, groupId, deserializers: stringDeserializers })
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
  const read = new Set()
  for await (const message of stream) {
    read.add(message.value)
    await message.commit()
    if (read.size >= wanted) break
  }
  await consumer.close(true)
  return read
}

await claim('a group reads, commits, and goes on where it was', async () => {
  same((await readWithGroup(topic, 3 * RECORDS)).size, 3 * RECORDS)
  const producer = new Producer({ ...common, serializers: stringSerializers })
  await producer.send({ messages: [{ topic, value: 'one more' }] })
  await producer.close()
  same([...(await readWithGroup(topic, 1))], ['one more'])
})

await claim('two members share the partitions', async () => {
  const members = [0, 1].map(() => new Consumer({ ...common, groupId: `${topic}-two`, deserializers: stringDeserializers }))
  for (const member of members) await member.consume({ topics: [topic] })
  await until(() => {
    const shares = members.map((each) => each.assignments?.[0]?.partitions.length ?? 0).sort()
    return JSON.stringify(shares) === '[1,2]'
  })
  for (const member of members) await member.close(true)
})

await claim('groups are listed, described and deleted', async () => {
  same([...(await admin.listGroups()).keys()].includes(topic), true)
  const described = await admin.describeGroups({ groups: [topic] })
  same(described.get(topic).state.toUpperCase(), 'EMPTY')
  await admin.deleteGroups({ groups: [topic] })
})

await claim('topics are deleted', async () => {
  await admin.deleteTopics({ topics: [topic] })
  same((await admin.listTopics()).includes(topic), false)
})

await claim(TRANSACTIONS, async () => {
  const name = `${topic}-transactions`
  await admin.createTopics({ topics: [name], partitions: 3, replicas: 3 })
  const producer = new Producer({ ...common, serializers: stringSerializers, idempotent: true, transactionalId: name })
  for (const value of VALUES) {
    const transaction = await producer.beginTransaction()
    await transaction.send({ messages: [0, 1, 2].map((partition) => ({ topic: name, partition, value })), acks: -1 })
    await (value === 'aborted' ? transaction.abort() : transaction.commit())
  }
  await producer.close()
  const consumer = new Consumer({ ...common, groupId: name, deserializers: stringDeserializers })
  const isolationLevel = 1 // what is committed
  const stream = await consumer.consume({ topics: [name], mode: 'earliest', isolationLevel, autocommit: false })
  const read = [[], [], []]
  for await (const message of stream) {
    read[message.partition].push(message.value)
    if (read.every((each) => each.includes('last'))) break
  }
  await consumer.close(true)
  same(read, COMMITTED)
})

await claim(COPIED, async () => {
  const name = `${topic}-copied`
  await admin.createTopics({ topics: [name], partitions: 3, replicas: 3 })
  const producer = new Producer({ ...common, serializers: stringSerializers, idempotent: true })
  const consumer = new Consumer({ ...common, groupId: name, deserializers: stringDeserializers })
  const from = { mode: 'committed', fallbackMode: 'earliest', autocommit: false }
  const stream = await consumer.consume({ topics: [name], ...from })
  const messages = stream[Symbol.asyncIterator]()
  for await (const batch of halves(name)) {
    await producer.send({ messages: batch.map((each) => ({ topic: name, ...each })), acks: -1 })
    for (const _ of batch) {
      const { value: message } = await messages.next()
      readBack(message.partition, message.key, message.headers.get('number'), message.value)
      await message.commit()
    }
  }
})

await admin.close()
process.exit(0)
