// kafkajs: topics, records, groups, and administration.

import { createRequire } from 'node:module'
import { COMMITTED, COPIED, TRANSACTIONS, VALUES, claim, halves, readBack, same, until, version } from './claims.mjs'

const [folder, bootstrap] = process.argv.slice(2)
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = createRequire(import.meta.url)(folder)

const RECORDS = 100
const kafka = new Kafka({ clientId: 'interop', brokers: bootstrap.split(','), logLevel: logLevel.WARN })
const topic = `kafkajs-${process.hrtime.bigint()}`
const admin = kafka.admin()

version(folder)
await admin.connect()

await claim('topics are created and described', async () => {
  const topics = [{ topic, numPartitions: 3, replicationFactor: 3 }]
  same(await admin.createTopics({ topics, waitForLeaders: true }), true)
  const found = await admin.fetchTopicMetadata({ topics: [topic] })
  same(found.topics[0].partitions.map((each) => each.replicas.length), [3, 3, 3])
})

await claim('batches are acknowledged, also compressed and idempotent', async () => {
  for (const [compression, idempotent] of [[CompressionTypes.None, false], [CompressionTypes.GZIP, true]]) {
    const producer = kafka.producer({ idempotent })
    await producer.connect()
    const messages = [...Array(RECORDS).keys()].map((number) => ({ key: `${number}`, value: `${compression}-${number}` }))
    await producer.send({ topic, acks: -1, compression, messages })
    await producer.disconnect()
  }
})

async function readWithGroup(groupId, wanted) {
  const consumer = kafka.consumer({ groupId })
  const read = new Set()
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => void read.add(message.value.toString()) })
  await until(() => read.size >= wanted)
  await consumer.disconnect()
  return read
}

await claim('a group reads, commits, and goes on where it was', async () => {
  same((await readWithGroup(topic, 2 * RECORDS)).size, 2 * RECORDS)
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'one more' }] })
  await producer.disconnect()
  same([...(await readWithGroup(topic, 1))], ['one more'])
})

await claim('two members share the partitions', async () => {
  const shares = []
  const members = [0, 1].map(() => kafka.consumer({ groupId: `${topic}-two` }))
  for (const [number, member] of members.entries()) {
    member.on(member.events.GROUP_JOIN, ({ payload }) => {
      shares[number] = (payload.memberAssignment[topic] ?? []).length
    })
    await member.connect()
    await member.subscribe({ topics: [topic] })
    await member.run({ eachMessage: async () => {} })
  }
  await until(() => shares.length === 2 && Math.min(...shares) === 1 && Math.max(...shares) === 2)
  for (const member of members) await member.disconnect()
})

await claim('offsets are listed, also by time', async () => {
  const found = await admin.fetchTopicOffsets(topic)
  same(found.reduce((sum, each) => sum + Number(each.offset), 0), 2 * RECORDS + 1)
  const first = await admin.fetchTopicOffsetsByTimestamp(topic, 1)
  same(first.map((each) => each.offset), ['0', '0', '0'])
})

await claim('groups are listed, described and deleted', async () => {
  const listed = (await admin.listGroups()).groups.map((each) => each.groupId)
  same(listed.includes(topic), true)
  const described = await admin.describeGroups([topic])
  same(described.groups.map((each) => each.state), ['Empty'])
  const committed = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  same(committed[0].partitions.reduce((sum, each) => sum + Number(each.offset), 0), 2 * RECORDS + 1)
  await admin.deleteGroups([topic])
})

await claim('configs are changed and described', async () => {
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  await admin.alterConfigs({
    resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
  })
  await until(async () => {
    const found = await admin.describeConfigs({ resources: [resource], includeSynonyms: false })
    return found.resources[0].configEntries.find((each) => each.configName === 'retention.ms').configValue === '3600000'
  })
})

await claim('partitions are added, records and topics deleted', async () => {
  await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] })
  await admin.deleteTopics({ topics: [topic] })
  same((await admin.listTopics()).includes(topic), false)
})

await claim(TRANSACTIONS, async () => {
  const name = `${topic}-transactions`
  await admin.createTopics({ topics: [{ topic: name, numPartitions: 3, replicationFactor: 3 }], waitForLeaders: true })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: name })
  await producer.connect()
  for (const [number, value] of VALUES.entries()) {
    const transaction = await producer.transaction()
    const messages = [0, 1, 2].map((partition) => ({ partition, value }))
    await transaction.send({ topic: name, acks: -1, messages })
    const topics = [{ topic: name, partitions: [{ partition: 0, offset: `${number}` }] }]
    await transaction.sendOffsets({ consumerGroupId: name, topics })
    await (value === 'aborted' ? transaction.abort() : transaction.commit())
  }
  await producer.disconnect()
  const committed = async () => (await admin.fetchOffsets({ groupId: name, topics: [name] }))[0].partitions
  await until(async () => (await committed()).some((each) => each.offset === '2'))
  const consumer = kafka.consumer({ groupId: `${name}-reader` })
  const read = [[], [], []]
  await consumer.connect()
  await consumer.subscribe({ topics: [name], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ partition, message }) => void read[partition].push(message.value.toString()),
  })
  await until(() => read.every((each) => each.includes('last')))
  await consumer.disconnect()
  same(read, COMMITTED)
})

await claim(COPIED, async () => {
  const name = `${topic}-copied`
  const topics = [{ topic: name, numPartitions: 3, replicationFactor: 3 }]
  await admin.createTopics({ topics, waitForLeaders: true })
  const producer = kafka.producer({ idempotent: true })
  const consumer = kafka.consumer({ groupId: name })
  let read = 0
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: [name], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      readBack(partition, message.key, message.headers.number, message.value)
      read += 1
    },
  })
  for await (const messages of halves(name)) {
    const wanted = read + messages.length
    await producer.send({ topic: name, acks: -1, messages })
    await until(() => read >= wanted)
  }
})

await admin.disconnect()
process.exit(0)
