//! rdkafka: topics, records, groups, and administration. Prints a line for each claim.

use std::error::Error;
use std::io::stdin;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::get_rdkafka_version;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(60);
const RECORDS: usize = 100;
const HALF: usize = 150;
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
const SENT: usize = CODECS.len() * RECORDS;

struct Client {
    common: ClientConfig,
    admin: AdminClient<DefaultClientContext>,
    topic: String,
}

impl Client {
    fn new(addresses: &str) -> Done<Self> {
        let mut common = ClientConfig::new();
        common.set("bootstrap.servers", addresses);
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        Ok(Client { admin: common.create()?, common, topic: format!("rust-{time}") })
    }

    async fn create(&self, name: &str) -> Done {
        let topic = NewTopic::new(name, 3, TopicReplication::Fixed(3));
        let made = self.admin.create_topics(&[topic], &AdminOptions::new()).await?;
        same(&made, &vec![Ok(name.to_string())])
    }

    async fn described(&self) -> Done {
        self.create(&self.topic).await?;
        let found = self.admin.inner().fetch_metadata(Some(&self.topic), LIMIT)?;
        let replicas: Vec<_> =
            found.topics()[0].partitions().iter().map(|each| each.replicas().len()).collect();
        same(&replicas, &vec![3, 3, 3])
    }

    fn producer(&self, codec: &str) -> Done<FutureProducer> {
        let mut settings = self.common.clone();
        Ok(settings.set("enable.idempotence", "true").set("compression.type", codec).create()?)
    }

    /// Writes records one behind another, and waits for all.
    async fn send(&self, producer: &FutureProducer, topic: &str, numbers: Range<usize>) -> Done {
        let mut sent = Vec::new();
        for number in numbers {
            let (key, value, text) = (format!("key-{number}"), format!("value-{number}"), number.to_string());
            let headers = OwnedHeaders::new().insert(Header { key: "number", value: Some(&text) });
            let record = FutureRecord::to(topic).key(&key).payload(&value).headers(headers);
            let record = record.partition((number % 3) as i32);
            sent.push(producer.send_result(record).map_err(|(error, _)| error)?);
        }
        for each in sent {
            each.await?.map_err(|(error, _)| error)?;
        }
        Ok(())
    }

    async fn produce(&self) -> Done {
        for codec in CODECS {
            self.send(&self.producer(codec)?, &self.topic, 0..RECORDS).await?;
        }
        Ok(())
    }

    fn consumer(&self, group: &str, topic: &str) -> Done<BaseConsumer> {
        let mut settings = self.common.clone();
        settings
            .set("group.id", group)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false");
        let consumer: BaseConsumer =
            settings.set("partition.assignment.strategy", "cooperative-sticky").create()?;
        consumer.subscribe(&[topic])?;
        Ok(consumer)
    }

    async fn goes_on(&self) -> Done {
        for wanted in [SENT - RECORDS, RECORDS] {
            read(&self.consumer(&self.topic, &self.topic)?, wanted)?;
        }
        Ok(())
    }

    fn partitions(&self) -> TopicPartitionList {
        let mut all = TopicPartitionList::new();
        all.add_partition_range(&self.topic, 0, 2);
        all
    }

    async fn share(&self) -> Done {
        let group = format!("{}-two", self.topic);
        let members = [self.consumer(&group, &self.topic)?, self.consumer(&group, &self.topic)?];
        until(|| {
            let mut shares = Vec::new();
            for each in &members {
                each.poll(Duration::from_millis(100)).transpose()?;
                shares.push(each.assignment()?.count());
            }
            shares.sort();
            Ok(shares == [1, 2])
        })
    }

    async fn offsets(&self) -> Done {
        let consumer = self.consumer(&self.topic, &self.topic)?;
        let mut sum = 0;
        for partition in 0..3 {
            sum += consumer.fetch_watermarks(&self.topic, partition, LIMIT)?.1;
        }
        same(&sum, &(SENT as i64))?;
        let mut times = self.partitions();
        times.set_all_offsets(Offset::Offset(1))?;
        let found = consumer.offsets_for_times(times, LIMIT)?;
        same(&found.elements()[0].offset(), &Offset::Offset(0))
    }

    async fn groups(&self) -> Done {
        let consumer: BaseConsumer = self.common.clone().set("group.id", &self.topic).create()?;
        let committed = consumer.committed_offsets(self.partitions(), LIMIT)?;
        let sum: i64 = committed.elements().iter().filter_map(|each| each.offset().to_raw()).sum();
        same(&sum, &(SENT as i64))?;
        same(&consumer.fetch_group_list(Some(&self.topic), LIMIT)?.groups()[0].state(), &"Empty")?;
        let deleted = self.admin.delete_groups(&[&self.topic], &AdminOptions::new()).await?;
        same(&deleted, &vec![Ok(self.topic.clone())])
    }

    async fn configs(&self) -> Done {
        let topic = ResourceSpecifier::Topic(&self.topic);
        let change = AlterConfig::new(topic).set("retention.ms", "3600000");
        self.admin
            .alter_configs(&[change], &AdminOptions::new())
            .await?
            .remove(0)
            .map_err(|(_, error)| error)?;
        let end = Instant::now() + LIMIT;
        loop {
            let found = self.admin.describe_configs([&topic], &AdminOptions::new()).await?.remove(0)?;
            let value = found.get("retention.ms").and_then(|each| each.value.clone());
            if value.as_deref() == Some("3600000") {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("retention.ms is {value:?}").into());
            }
        }
    }

    async fn added(&self) -> Done {
        let more = NewPartitions::new(&self.topic, 5);
        let made = self.admin.create_partitions(&[more], &AdminOptions::new()).await?;
        same(&made, &vec![Ok(self.topic.clone())])
    }

    async fn deleted(&self) -> Done {
        let made = self.admin.delete_topics(&[&self.topic], &AdminOptions::new()).await?;
        same(&made, &vec![Ok(self.topic.clone())])
    }

    /// Writes and reads over the death of a leader. The runner compares what is read.
    async fn copied(&self) -> Done {
        let topic = format!("{}-copied", self.topic);
        self.create(&topic).await?;
        let (producer, consumer) = (self.producer("none")?, self.consumer(&topic, &topic)?);
        for half in 0..2 {
            if half == 1 {
                println!("kill the leader of {topic}");
                stdin().read_line(&mut String::new())?;
            }
            self.send(&producer, &topic, half * HALF..(half + 1) * HALF).await?;
            for each in read(&consumer, HALF)? {
                let header = each.headers().ok_or("no headers")?.get_as::<str>(0)?;
                let (key, value) = (each.key_view::<str>().ok_or("no key")??, each.payload_view::<str>());
                let value = value.ok_or("no value")??;
                println!(
                    "read {} {key} {}={} {value}",
                    each.partition(),
                    header.key,
                    header.value.unwrap_or("")
                );
            }
        }
        Ok(())
    }
}

/// Reads as many records as are wanted, and commits them.
fn read(consumer: &BaseConsumer, wanted: usize) -> Done<Vec<OwnedMessage>> {
    let mut found = Vec::new();
    until(|| {
        // An error is news, such as of a broker that is gone: librdkafka goes on alone.
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            found.push(message.detach());
        }
        Ok(found.len() == wanted)
    })?;
    let mut next = TopicPartitionList::new();
    for each in &found {
        let offset = Offset::Offset(each.offset() + 1);
        match next.find_partition(each.topic(), each.partition()) {
            Some(mut place) => place.set_offset(offset)?,
            None => next.add_partition_offset(each.topic(), each.partition(), offset)?,
        }
    }
    consumer.commit(&next, CommitMode::Sync)?;
    Ok(found)
}

fn until(mut condition: impl FnMut() -> Done<bool>) -> Done {
    let end = Instant::now() + LIMIT;
    while !condition()? {
        if Instant::now() > end {
            return Err(format!("not so after {LIMIT:?}").into());
        }
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Done {
    if found == expected { Ok(()) } else { Err(format!("{found:?} is not {expected:?}").into()) }
}

async fn claim(name: &str, work: impl Future<Output = Done>) {
    match work.await {
        Ok(()) => println!("passed {name}"),
        Err(error) => println!("failed {name}: {}", error.to_string().replace('\n', " ")),
    }
}

/// The crate's version, as Cargo.lock pins it.
fn version() -> Option<&'static str> {
    let (_, after) = include_str!("../Cargo.lock").split_once("name = \"rdkafka\"\nversion = \"")?;
    Some(after.split_once('"')?.0)
}

#[tokio::main]
async fn main() -> Done {
    println!("version {} (librdkafka {})", version().unwrap_or("unknown"), get_rdkafka_version().1);
    let client = Client::new(&std::env::args().nth(1).ok_or("give the addresses")?)?;
    claim("topics are created and described", client.described()).await;
    claim("batches of each codec are acknowledged, idempotent", client.produce()).await;
    claim("a group reads, commits, and goes on where it was", client.goes_on()).await;
    claim("two members share the partitions, cooperative-sticky", client.share()).await;
    claim("offsets are listed, also by time", client.offsets()).await;
    claim("groups are listed, described and deleted", client.groups()).await;
    claim("configs are changed and described", client.configs()).await;
    claim("partitions are added", client.added()).await;
    claim("topics are deleted", client.deleted()).await;
    claim("records are written and read over the death of a leader", client.copied()).await;
    Ok(())
}
